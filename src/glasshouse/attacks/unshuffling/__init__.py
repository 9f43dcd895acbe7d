"""What an attacker who knows everything but the key makes of shuffled images; one file for each part of it."""
