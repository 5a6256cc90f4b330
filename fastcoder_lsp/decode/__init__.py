"""THE LOOP: propose, forward, verify, commit, observe; and the rules of where to stop."""
