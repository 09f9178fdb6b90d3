"""The costs of calls: prices, the ledger and the budget."""
