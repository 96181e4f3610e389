"""Explanations that no paper gives: of each question, rivals with what they predict, put to the tables."""
