"""Loading templates from source. Declarations are read, and trusted code is executed."""
