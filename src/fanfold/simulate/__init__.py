"""What a plan would come to, run many times with stand-ins for its members: nothing is asked or paid."""
