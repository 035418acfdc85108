"""The control plane: stores pipelines, takes requests, answers questions. It never executes a pipeline."""
