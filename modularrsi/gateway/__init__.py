"""The only part of the engine that talks to a model: settings, prices, budget, limits, retries, journal, client.

`connect.py` puts the parts together; `client.py` alone imports the `openai` package, which takes most of a second.
"""
