"""The page in a real browser: what a user sees and presses, from an installed wheel, with the network denied."""
