"""Preparing and executing runs."""
