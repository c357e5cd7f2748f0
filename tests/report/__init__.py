"""What people and programs see, from one week of a small cluster."""
