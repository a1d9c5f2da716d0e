"""What the routes of pages share: the store to read, the view, and the daemon if there is one."""

from dataclasses import dataclass

from hierogram.daemon.web.pages.rendering.view import View
from hierogram.daemon.web.protocol.service import Service
from hierogram.storage.browsing.reader import Reader


@dataclass(frozen=True, slots=True)
class Visit:
    """A store that is looked at."""

    reader: Reader
    view: View
    service: Service | None
