"""Looking in from outside: what the daemon answers over HTTP."""
