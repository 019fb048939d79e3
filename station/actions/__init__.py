"""What people do by hand: one Action for the button, the API call and the command, answered by one Outcome."""

from station.actions.action import Action, action
from station.actions.outcome import Outcome, Refusal, Result, changed_meanwhile, done, nothing, refused

__all__ = ["Action", "Outcome", "Refusal", "Result", "action", "changed_meanwhile", "done", "nothing", "refused"]
