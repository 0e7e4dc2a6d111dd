"""Write the reference from the code, build the documentation's site, and check both."""
