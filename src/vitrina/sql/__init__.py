"""Understanding the user's SELECT: is it safe, and what does it give."""
