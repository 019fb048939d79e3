"""The machines themselves: health, placement, ports, and the threads that call them."""
