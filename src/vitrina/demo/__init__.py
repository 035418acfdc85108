"""The online cinema: data, pipelines and transforms to try Vitrina on."""
