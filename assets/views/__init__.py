"""HTTP views of the library outside the admin's change pages."""
