"""What sampling by several workers costs."""
