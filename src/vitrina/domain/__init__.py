"""What Vitrina is about, without I/O: pipelines, their lifecycle, runs, policy, errors."""
