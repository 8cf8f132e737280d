"""Balle, Cherubin and Hayes 2022, row by row."""
