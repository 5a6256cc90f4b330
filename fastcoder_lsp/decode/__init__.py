"""The decoding loop (propose, forward, verify, commit, observe) and its stop rules."""
