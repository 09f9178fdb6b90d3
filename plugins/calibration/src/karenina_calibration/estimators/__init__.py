"""The estimators of calibration. They know neither results nor labels of a run, only numbers."""
