"""Measuring with the simulated model: what is known to be true, and how often it was found.

    libraries   a copy of the seed library with functions added, replaced, activated
    defects     seed libraries with one or two known faults, and what is wrong with each
    labels      which candidate of the editor's catalogue is of which kind
    tasks       twenty small tasks in which every habit has its occasion
    measure     the table of habits: each alone, and with the function that averts it
    felt        what each planted defect costs
"""
