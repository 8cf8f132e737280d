"""The main job: from a configuration to results, in resumable stages.

experiment  the configuration of a run
feasible    what would make a later stage fail, found first
named       config.attacks.NAME
pools       the data sets of a run, and their division
pipeline    the five stages
stages      the record that makes a stage resumable
stored      what the files of a run hold, and what decided them
evaluation  the comparison with the truth
protection  what theory says of private training, and whether attacks obey it
diagnose    why targets are easy or hard, in pictures
sweep       grids of experiments over shared stores
"""
