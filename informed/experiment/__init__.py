"""The main job: from a configuration (`experiment`) to results, in resumable stages.

`pipeline` has the stages.
"""
