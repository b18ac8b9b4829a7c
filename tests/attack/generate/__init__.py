"""Makes hostile files from seeds. Nothing here runs the program."""
