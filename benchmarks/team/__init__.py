"""How a team's server holds many people who type: time to text, who is served how, what a disturbance costs."""
