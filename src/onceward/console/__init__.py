"""Console: the web application and API that `onceward up` serves."""
