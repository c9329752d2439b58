"""The simulated model: an OpenAI-compatible service that plays every role by seeded, documented rules.

It is the embedded default (no key, no network) and a measuring instrument: its solver knows a task's reference
solution, plays it through whatever harness it is put behind, and has habits that real agents have. What a reply is
depends on the seed and the request alone, so a change of rewards is a change of the harness.

    settings    what can be set, from TOML and the command line
    habits      every habit of the solver: name, probability, source, what averts it
    question    what a policy is asked and answers
    brain       which policy plays which role
    solver/     the agent's part
    analyst, editor, reviewer, composer
                the other roles, by rule from what their prompts hold
    catalogue/  what the editor can propose
    chat        OpenAI's request and reply bodies
    faults      what a service can do wrong, by rate or by script
    server      HTTP
    embedded    the server as a part of a run

`modularrsi.instrument` measures with it: planted defects, labels of the catalogue, the table of habits.
"""
