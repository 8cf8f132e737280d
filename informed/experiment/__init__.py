"""Run an experiment of attacks in resumable stages: from configuration to results.

`informed run` calls them. `settings` has the configuration, `pipeline` the stages.
"""
