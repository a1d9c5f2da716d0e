"""Service around one store: command line, library, ingest, learning, exports, HTTP and workers."""
