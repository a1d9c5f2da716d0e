"""What `hierogram bench` measures, one module for each part of the system."""
