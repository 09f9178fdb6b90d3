"""What calls cost: prices, the ledger, the budget."""
