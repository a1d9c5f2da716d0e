"""Server-rendered pages that show a store in the browser."""
