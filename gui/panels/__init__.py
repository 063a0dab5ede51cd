"""The parts of the window besides the plots: each a widget that is told what to show and says what was done to it."""
