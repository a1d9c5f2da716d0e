"""The bytes of a file in pieces that kernels read line by line."""

from collections.abc import Iterator

import numpy as np

from hierogram.daemon.corpora.lines import MAX_LINE_BYTES, LineFile
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.progress import Progress
from hierogram.samplers.language_models.arpa import AT, LINE

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Source:
    """The bytes of a file, in pieces that kernels read; `cursor` says where reading stands.

    `blocks`, made of the file's lines, are read in place of its bytes.
    """

    def __init__(self, file: LineFile, shown: Progress, blocks: Iterator[bytes] | None = None) -> None:
        self.file = file
        self.cursor = np.array([0, 1, 0], np.int64)
        self.text = np.zeros(0, np.uint8)
        self.read = 0
        self._blocks = file.blocks() if blocks is None else blocks
        self._shown = shown
        self._ended = False

    def refill(self) -> bool:
        """Put more behind what is left; whether there was more."""
        rest = self.text[self.cursor[AT] :].tobytes()
        if len(rest) > MAX_LINE_BYTES:
            raise self.fault(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
        block = next(self._blocks, None)
        if block is None:
            if self._ended:
                return False
            self._ended = True
            # The last line may lack its end.
            block = b"\n" if rest else b""
        elif not len(self.text):
            block = block.removeprefix(_BYTE_ORDER_MARK)
        self.text = np.frombuffer(bytearray(rest + block), np.uint8)
        self.cursor[AT] = 0
        self._shown.update(self.file.bytes_read, self.file.size, self.read)
        return True

    def line(self) -> bytes | None:
        """The next line that is not empty, without white space around it, None at the end; the cursor stays on it."""
        while True:
            start = int(self.cursor[AT])
            ends = np.flatnonzero(self.text[start : start + MAX_LINE_BYTES + 1] == ord("\n"))
            if not len(ends):
                if not self.refill():
                    return None
                continue
            if line := self.text[start : start + ends[0]].tobytes().strip():
                return line
            self.next(int(ends[0]))

    def next(self, length: int | None = None) -> None:
        """Go behind the line that stands at the cursor, with its length if that is known."""
        start = int(self.cursor[AT])
        if length is None:
            length = int(np.argmax(self.text[start:] == ord("\n")))
        self.cursor[AT] = start + length + 1
        self.cursor[LINE] += 1

    def fault(self, reason: str, line: int | None = None) -> InputError:
        """An error that names the line, that at the cursor if none is given."""
        return InputError(f"{self.file.name}: line {self.cursor[LINE] if line is None else line}: {reason}")
