"""Estimators for calibration. They take plain numbers, and know neither results nor label files."""
