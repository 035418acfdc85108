"""Lakes in a bucket, on a real server of S3."""
