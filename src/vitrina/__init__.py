"""Write a SELECT, name its key, and Vitrina keeps a mart equal to it."""
