"""What exports read, and the record of exports."""
