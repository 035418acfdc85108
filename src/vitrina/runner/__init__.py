"""The data plane: claims pipelines from the meta-store and executes them. Knows no HTTP."""
