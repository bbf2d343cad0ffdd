"""Data, training and evaluation around the model."""
