"""Run an experiment of attacks in resumable stages: from configuration to results.

`informed run` runs the stages, which `pipeline` has; `settings` has the configuration.
"""
