"""Make: the documentation's own program, which writes the reference and builds the site."""
