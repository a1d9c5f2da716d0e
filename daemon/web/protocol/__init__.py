"""Hold what all addresses share: problems, parameters, the document of the API, and the daemon behind them."""
