"""Console: the web application that people and programs meet when they run `onceward up`."""
