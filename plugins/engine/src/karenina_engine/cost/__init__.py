"""The cost of calls: prices, the ledger and the budget."""
