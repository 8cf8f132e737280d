"""scikit-learn artefacts: what stored fields tell of training rows."""
