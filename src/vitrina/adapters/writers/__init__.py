"""Writers: marts, and the statements that make them equal to a query."""
