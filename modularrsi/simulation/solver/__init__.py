"""The agent's part: a task's way to its solution, played through whatever harness the solver is put behind.

    walkthrough   the way: looks, files to write, commands to run, what each step needs to have seen
    script        the way derived from a reference solution that has no walkthrough
    memory        what the messages show to have happened so far
    reading       what the last prompt offers and says
    policy        what to do next: competence, and habits
    speech        the reply, in the grammar that the prompt teaches
    handover      replies to requests for summaries, questions, answers
"""
