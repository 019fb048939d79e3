"""Actions people take by hand: one Action for button, API call and command; each call returns one Outcome."""

from station.actions.action import Action, action
from station.actions.outcome import Outcome, Refusal, Result, changed_meanwhile, done, nothing, refused

__all__ = ["Action", "Outcome", "Refusal", "Result", "action", "changed_meanwhile", "done", "nothing", "refused"]
