"""What the window shows, as plain data. No Qt in here."""
